-- How long a pause was meant to last: processes with other settings respect it, and one of which more is left was written by
-- a clock that has gone back since.

alter table {schema}.circuits add column pause_s double precision not null default 0;
comment on column {schema}.circuits.pause_s is 'how long the wait until then was meant to last, by the settings of who wrote it';

alter table {schema}.consumer_breakers add column pause_s double precision not null default 0;
comment on column {schema}.consumer_breakers.pause_s is
    'how long the wait until then was meant to last, by the settings of who wrote it';

update {schema}.circuits set pause_s = extract(epoch from until - changed)
where state <> 'closed' and isfinite(until) and until > changed;

update {schema}.consumer_breakers set pause_s = extract(epoch from until - changed)
where state <> 'closed' and isfinite(until) and until > changed;
