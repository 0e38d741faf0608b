-- As `set_stable_plans`, and commits are not waited for: a lease that a crash of the server undoes has led to nothing yet.
select set_config('enable_seqscan', 'off', $1), set_config('enable_bitmapscan', 'off', $1),
    set_config('plan_cache_mode', 'force_generic_plan', $1), set_config('synchronous_commit', 'off', $1)
