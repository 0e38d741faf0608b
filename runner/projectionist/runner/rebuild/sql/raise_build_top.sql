-- What lies up to here is history for views that join by this build.
update {schema}.builds set top = greatest(top, $2) where number = $1
