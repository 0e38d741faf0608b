-- What has been decided about what stands at one place of the stream.
select number, at, kind, actor, reason, encode(hash, 'hex') as hash, headers is not null as headers,
    data is not null as data
from {schema}.decisions where consumer = $1 and incarnation = $2 and seq = $3 order by number
