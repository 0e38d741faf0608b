-- Discards all of a consumer's intents that wait for their time.
with forgotten as (
    update {schema}.schedule set look = null where consumer = $1 and look is not null and promoted is null
    returning intent
)
update {schema}.intents set state = 'discarded', settled = clock_timestamp(), error = 'its consumer was reset'
where seq = any (array(select intent from forgotten))
