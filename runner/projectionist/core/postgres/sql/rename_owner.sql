-- The same place under another name, or more known of it.
update {schema}.owner set system = $1, name = $2 where token = $3::text::uuid
