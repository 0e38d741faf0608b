-- Sequences up to the floor $2 that live has put aside, and where versions do not say it ($3), those it did not apply.
select seq from {schema}.quarantine
where consumer = $1 and seq <= $2 and state <> 'released' and incarnation = $4
union
select seq from {schema}.inbox
where $3 and consumer = $1 and seq <= $2 and incarnation = $4 and state not in ('applied', 'ignored')
union
select seq from {schema}.duplicates where $3 and consumer = $1 and seq <= $2 and incarnation = $4
