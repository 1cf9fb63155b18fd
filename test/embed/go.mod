// A program that uses qq as a library: a module of its own whose path is not below
// qq, so that it can import pkg/ and nothing of internal/.
module example.org/embed

go 1.26.0

require qq v0.0.0

require (
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace qq => ../..
