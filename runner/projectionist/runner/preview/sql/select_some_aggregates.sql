-- So many aggregates of one type ($2: with its slash), chosen by chance.
select aggregate from {schema}.positions where consumer = $1 and starts_with(aggregate, $2) order by random() limit $3
