-- Sequences up to the floor $2 that live has put aside, and where versions do not say it ($3), those it did not apply. There,
-- what the inbox has as applied is none of them, wherever else it stands.
with aside as (
    select seq from {schema}.quarantine where consumer = $1 and seq <= $2 and state <> 'released' and incarnation = $4
)
select seq from (
    select seq from aside
    except
    select i.seq from {schema}.inbox i join aside using (seq)
    where $3 and i.consumer = $1 and i.incarnation = $4 and i.state in ('applied', 'ignored')
) as unapplied
union
select seq from {schema}.inbox
where $3 and consumer = $1 and seq <= $2 and incarnation = $4 and state not in ('applied', 'ignored')
union
select seq from {schema}.duplicates where $3 and consumer = $1 and seq <= $2 and incarnation = $4
