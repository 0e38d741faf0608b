-- Whether a build that is open makes this generation of a view, or goes back to it.
select exists (
    select from {schema}.build_views t join {schema}.builds b on b.number = t.build
    where t.view = $1 and t.generation = $2 and b.ended is null
)
