module github.com/kaws/kaws/sdk/go

go 1.22
