package sandbox

import (
	"encoding/json"
	"errors"
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

// mountVariable is the environment variable that makes this binary mount overlays, see [MountArgs].
const mountVariable = "QQ_SANDBOX_MOUNT"

// MountArgs returns the command line and the entry of the environment that make this binary mount overlays in a user
// namespace of its own, as the first thing that [Exec] does, until its descriptor socket has no other end. That is a
// UNIX socket of packets. Each request is a packet of [Layers.Request]. The answer is a packet with the overlay, or one
// with a text that says why there is none. If the process can mount none at all, it says so on stderr and exits with
// code 126.
func MountArgs(socket int) (args []string, env string) {
	return []string{os.Args[0]}, mountVariable + "=" + strconv.Itoa(socket)
}

// Request returns the text that asks a process of [MountArgs] for an overlay.
func (l Layers) Request() []byte {
	text, _ := json.Marshal([][]byte{[]byte(l.Lower), []byte(l.Upper), []byte(l.Work)}) // always becomes JSON
	return text
}

// readLayers returns the layers of a request.
func readLayers(request []byte) (Layers, error) {
	var paths [][]byte
	if err := json.Unmarshal(request, &paths); err != nil || len(paths) != 3 {
		return Layers{}, errors.New("an overlay has three folders")
	}
	return Layers{string(paths[0]), string(paths[1]), string(paths[2])}, nil
}
