package foreign

import (
	"fmt"

	"qq/internal/foreign/acp"
	"qq/internal/foreign/claude"
	"qq/internal/foreign/wire"
	"qq/pkg/agents/program"
)

// DialectOf returns the dialect of a program.
func DialectOf(p program.Program) (wire.Dialect, error) {
	switch p.Name {
	case program.Claude:
		return claude.Dialect{}, nil
	case program.ACP, program.OpenCode:
		return acp.Dialect{}, nil
	}
	return nil, fmt.Errorf("this version cannot run %s as a child", p.Name)
}
