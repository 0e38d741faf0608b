-- What a build has made is live from here on, all of it at once, and no build is open. A view that joins makes effects of what comes
-- behind the build's history; what was history for it before stays that.
with swapped as (
    update {schema}.views v
    set generation = t.generation, revision = t.revision, shape = t.shape, code = t.code, state = 'live',
        effects_incarnation = case
            when v.state = 'live' or (v.effects_incarnation, v.effects_mark) > (b.incarnation, b.top + 1)
                then v.effects_incarnation
            else b.incarnation end,
        effects_mark = case
            when v.state = 'live' or (v.effects_incarnation, v.effects_mark) > (b.incarnation, b.top + 1)
                then v.effects_mark
            else b.top + 1 end
    from {schema}.build_views t join {schema}.builds b on b.number = t.build
    where t.build = $1 and v.number = t.view
    returning v.number, v.consumer, v.generation, v.code
), live as (
    update {schema}.generations g set state = 'live', build = null, kept_until = null
    from swapped s where g.view = s.number and g.generation = s.generation
), code as (
    insert into {schema}.code_fingerprints (view, code) select number, code from swapped
    on conflict (view, code) do update set adopted = clock_timestamp()
)
update {schema}.consumers set build = null, epoch = epoch + 1 where number in (select consumer from swapped)
