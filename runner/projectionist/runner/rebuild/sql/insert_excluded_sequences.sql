-- Sequences up to the floor $3 that live has put aside, and where versions do not say it ($4), those it did not apply.
insert into {schema}.build_excluded (build, seq)
select $1::integer, seq from {schema}.quarantine
where consumer = $2 and seq <= $3 and state <> 'released' and incarnation = $5
union
select $1::integer, seq from {schema}.inbox
where $4 and consumer = $2 and seq <= $3 and incarnation = $5 and state not in ('applied', 'ignored')
union
select $1::integer, seq from {schema}.duplicates where $4 and consumer = $2 and seq <= $3 and incarnation = $5
