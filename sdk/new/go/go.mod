module my-plugin

go 1.22
