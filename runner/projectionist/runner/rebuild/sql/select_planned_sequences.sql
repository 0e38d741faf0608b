-- Which messages of the stream a round has planned to fold.
select seq from {schema}.build_steps where build = $1 and seq is not null
