-- Every decision about a consumer's events, in the order in which they were made.
select kind, aggregate, version, upto, source, id, data from {schema}.decisions where consumer = $1 order by number
