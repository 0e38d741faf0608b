-- Whether this build is still ours: locks its row for the transaction that writes for it.
select phase from {schema}.builds where number = $1 and epoch = $2 and ended is null for update
