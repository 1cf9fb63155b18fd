package permissions

import (
	"io/fs"
	"os"
	"path/filepath"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/internal/tools/tree"
)

// CheckWritable returns an error if a writable folder does not exist: the sandbox can
// only allow writes to existing folders. A socket is for commands to connect to.
func CheckWritable(cfg config.Config) error {
	for _, dir := range cfg.Writable {
		if tree.Obeyed(filepath.Base(dir)) {
			continue // it may be made, or be a file
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() && info.Mode().Type() != fs.ModeSocket {
			return command.Usagef("make it, or leave it out",
				"QQ_WRITABLE (%s) names %q, which is no folder and no socket", cfg.Source("QQ_WRITABLE"), dir)
		}
	}
	return nil
}
