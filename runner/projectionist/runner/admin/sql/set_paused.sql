-- Pauses a consumer or lets it go on; nothing if it is so already. Under the exclusive barrier.
update {schema}.consumers set paused = $2 where number = $1 and paused <> $2 returning number
