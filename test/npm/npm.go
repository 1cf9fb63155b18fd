// Package npm finds the programs from npm that the tests of `make reach` talk to: other agent programs, and the official
// suites of the protocols. tools.sh installs them.
package npm

import (
	"os"
	"path/filepath"
	"testing"
)

// The variables of `make reach`.
const (
	// ReachVar is set when tests may talk to programs from npm.
	ReachVar = "QQ_REACH"
	// FolderVar is the folder that tools.sh has printed; it is empty if npm cannot be reached.
	FolderVar = "QQ_NPM"
	// RequiredVar makes a program that is missing a failure.
	RequiredVar = "QQ_NPM_REQUIRED"
)

// Program returns the path of a program from npm, and the PATH, as an entry of an environment, with which it and the
// Node.js that it needs are found. The test is skipped if there are none.
func Program(t testing.TB, name string) (path, env string) {
	t.Helper()
	bin := filepath.Join(os.Getenv(FolderVar), "bin")
	path = filepath.Join(bin, name)
	_, err := os.Stat(path)
	switch {
	case os.Getenv(ReachVar) == "":
		t.Skip("run make reach: this test needs programs from npm")
	case os.Getenv(FolderVar) == "" && os.Getenv(RequiredVar) == "":
		t.Skip("npm cannot be reached: this test needs programs from there")
	case os.Getenv(FolderVar) == "":
		t.Fatalf("npm cannot be reached, and %s is set", RequiredVar)
	case err != nil: // tools.sh installs all or nothing
		t.Fatalf("%s is no program of test/npm/tools.sh: %v", name, err)
	}
	return path, "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")
}
