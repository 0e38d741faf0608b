-- What has failed before, of these aggregates and events without order, for what may be the server's fault ($4).
select id from {schema}.parked
where consumer = $1 and cause = 'failed' and error_class = any($4::text[])
    and (ordered and aggregate = any($2::text[]) or not ordered and id = any($3::text[]))
limit 1
