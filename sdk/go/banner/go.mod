module example.org/banner

go 1.22

require github.com/kaws/kaws/sdk/go v0.0.0

replace github.com/kaws/kaws/sdk/go => ../
