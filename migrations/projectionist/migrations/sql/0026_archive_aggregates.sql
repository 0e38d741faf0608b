-- Who asks for an aggregate is told what of it has gone to the archive.

create index archive_aggregate on {schema}.archive ((content ->> 'aggregate')) where kind = 'inbox';
