-- A takeover: batches that read another epoch than their own give up what they remember. Under the exclusive barrier.
update {schema}.consumers set epoch = epoch + 1 where number = $1
