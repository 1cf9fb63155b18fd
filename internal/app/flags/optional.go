package flags

import "github.com/urfave/cli/v2"

// Optional is the value of a flag that may stand alone, --resume, or with a value
// behind an equals sign, --resume=ID.
type Optional struct {
	Given bool
	Value string // empty where it stands alone
}

// Set implements flag.Value.
func (o *Optional) Set(s string) error {
	o.Given, o.Value = true, s
	if s == "true" { // what the library says of a flag that stands alone
		o.Value = ""
	}
	if s == "false" {
		*o = Optional{}
	}
	return nil
}

func (o *Optional) String() string {
	if o == nil {
		return ""
	}
	return o.Value
}

// IsBoolFlag tells the library that the next argument is no value.
func (o *Optional) IsBoolFlag() bool { return true }

// optionalFlag is a flag whose value may be left out.
type optionalFlag struct{ *cli.GenericFlag }

// TakesValue implements cli.DocGenerationFlag: not from the next argument.
func (optionalFlag) TakesValue() bool { return false }

// OptionalFlag makes a flag whose value may be left out.
func OptionalFlag(name, usage string, to *Optional) cli.Flag {
	return optionalFlag{&cli.GenericFlag{Name: name, Usage: usage, Value: to}}
}
