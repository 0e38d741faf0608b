-- Gives a registered consumer the name its class has now; number and key name stay, so that nothing is seen as new.
update {schema}.consumers set name = $2 where number = $1
