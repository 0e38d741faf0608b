-- Sequences up to the floor $3 that live has put aside, and where versions do not say it ($4), those it did not apply. There,
-- what the inbox has as applied is none of them, wherever else it stands.
with aside as (
    select seq from {schema}.quarantine where consumer = $2 and seq <= $3 and state <> 'released' and incarnation = $5
)
insert into {schema}.build_excluded (build, seq)
select $1::integer, seq from (
    select seq from aside
    except
    select i.seq from {schema}.inbox i join aside using (seq)
    where $4 and i.consumer = $2 and i.incarnation = $5 and i.state in ('applied', 'ignored')
) as unapplied
union
select $1::integer, seq from {schema}.inbox
where $4 and consumer = $2 and seq <= $3 and incarnation = $5 and state not in ('applied', 'ignored')
union
select $1::integer, seq from {schema}.duplicates where $4 and consumer = $2 and seq <= $3 and incarnation = $5
