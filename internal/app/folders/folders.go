// Package folders decides in which folders agents may have other agents work.
//
// Commands are kept from the files that programs obey by what is in their own working directory (package box). In a
// folder that is itself obeyed, or that another part of the tree names, nothing would keep them. So no agent is sent
// there by another one. A person may start one there.
package folders

import (
	"path/filepath"

	"qq/internal/box"
	"qq/internal/tools/tree"
	"qq/pkg/supervisor/ceiling"
)

// Rule bars the folders that programs obey, those of secrets, and those of qq itself.
type Rule struct {
	Private []string // the folders of qq itself
}

var _ ceiling.Folders = Rule{}

// Bars implements ceiling.Folders.
func (r Rule) Bars(own, dir string) string {
	if why := tree.Places(r.Private).Bars(filepath.ToSlash(own), filepath.ToSlash(dir)); why != "" {
		return why
	}
	if item := box.Exposed(own, dir); item != "" {
		return "would expose " + item + ", which programs obey"
	}
	return ""
}
