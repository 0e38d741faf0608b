-- The generation that this build goes back to has positions of its own from here on, under the build's number.
with own as (
    update {schema}.builds set positions = null where number = $1 returning number
)
update {schema}.generations g set build = o.number
from own o join {schema}.build_views t on t.build = o.number
where g.view = t.view and g.generation = t.generation
