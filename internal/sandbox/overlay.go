package sandbox

import (
	"encoding/json"
	"os"
	"strconv"
)

// Layers are the folders of an overlay: a file system that shows what is in Lower and keeps all changes in Upper. Lower
// stays as it is. Work is an empty folder on the file system of Upper, for the kernel. All paths are absolute.
//
// An overlay is attached nowhere. It is an open file, and ends with the last one that has the file open and the last
// process that sees it: see [Overlay]. So nothing of it is left when this process is killed.
type Layers struct{ Lower, Upper, Work string }

// Overlay makes the program of an [Order] see an overlay instead of a folder.
type Overlay struct {
	File int    // descriptor of the overlay, from [Layers.Mount]; the program does not inherit it
	Dir  string // the folder, without links
}

// mountVariable is the environment variable that makes this binary mount an overlay, see
// [Layers.MountArgs].
const mountVariable = "QQ_SANDBOX_MOUNT"

// MountArgs returns the command line and the entry of the environment that make this binary mount an overlay in a user
// namespace of its own, as the first thing that [Exec] does. It sends the overlay over its descriptor socket, a UNIX
// socket, and exits. It says on stderr why it cannot, and exits with code 126.
func (l Layers) MountArgs(socket int) (args []string, env string) {
	text, _ := json.Marshal([][]byte{[]byte(l.Lower), []byte(l.Upper), []byte(l.Work)}) // always becomes JSON
	return []string{os.Args[0], string(text)}, mountVariable + "=" + strconv.Itoa(socket)
}
