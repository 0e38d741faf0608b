-- What in quarantine is to be read again, with the headers and data to read: at most $2 entries, and $3 bytes or the first.
select incarnation, seq, due, subject, reason, headers, data, hash, is_whole, received
from (
    select q.incarnation, q.seq, q.due, q.subject, q.reason, coalesce(d.headers, q.headers) as headers,
        coalesce(d.data, q.data) as data, q.hash, d.data is not null or octet_length(q.data) >= q.size as is_whole,
        q.received, coalesce(sum(
            octet_length(coalesce(d.data, q.data)) + coalesce(octet_length(coalesce(d.headers, q.headers)), 0)
        ) over (
            order by q.due, q.incarnation, q.seq rows between unbounded preceding and 1 preceding
        ), 0) as bytes_before
    from (
        select * from {schema}.quarantine
        where consumer = $1 and due <= clock_timestamp()
        order by due, incarnation, seq limit $2
    ) q
    left join {schema}.decisions d on d.number = q.edit
) first
where bytes_before < $3
order by due, incarnation, seq
