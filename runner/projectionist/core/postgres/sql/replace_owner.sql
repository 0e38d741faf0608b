-- The schema is at home here from now on, under a token of its own, unless somebody else has said so meanwhile ($6: the token
-- so far). $7: whether what bears that token is to be taken over without a question.
update {schema}.owner
set system = $1, timeline = $2, database = $3, name = $4, home = $5, before = case when $7 then token end,
    token = gen_random_uuid(), since = clock_timestamp()
where token = $6::text::uuid
