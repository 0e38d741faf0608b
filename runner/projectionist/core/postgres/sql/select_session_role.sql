-- The role that has logged in: a handler may have taken on another for a while.
select session_user::text
