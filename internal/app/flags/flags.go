package flags

import "github.com/urfave/cli/v2"

// plainFlag is what the flags of the library have in common.
type plainFlag interface {
	cli.DocGenerationFlag
	cli.VisibleFlag
	cli.CategorizableFlag
	cli.ActionableFlag
}

// namedFlag is a flag that knows its names. The library finds them anew with a
// regular expression, for each flag once for each other flag, which would be a
// twentieth of the start of each child.
type namedFlag struct {
	plainFlag
	names []string
}

// Names implements cli.Flag.
func (f namedFlag) Names() []string { return f.names }

// Named wraps flags so that they know their names.
func Named(flags []cli.Flag) []cli.Flag {
	wrapped := make([]cli.Flag, len(flags))
	for i, f := range flags {
		wrapped[i] = f
		if p, ok := f.(plainFlag); ok {
			wrapped[i] = namedFlag{p, p.Names()}
		}
	}
	return wrapped
}
