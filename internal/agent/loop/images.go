package loop

import (
	"fmt"

	"qq/pkg/picture"
	"qq/pkg/tool"
)

// shown counts the images of a conversation. Each request has all of them again.
type shown struct{ count, bytes int }

// Limits of the images of a conversation, beyond which tools show no more. Anthropic takes 100 images and 32 MB in a
// request, and base64 makes images a third larger.
const (
	maxShown      = 100
	maxShownBytes = 20 << 20
)

// add counts images, and reports whether the conversation has room for them.
func (s *shown) add(images []picture.Image) bool {
	s.count += len(images)
	for i := range images {
		s.bytes += images[i].Bytes
	}
	return s.count <= maxShown && s.bytes <= maxShownBytes
}

// show returns the result r of a call, or a failure if the conversation has no room for its images.
func (l *loop) show(r tool.Result) tool.Result {
	if len(r.Images) == 0 {
		return r
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	with := l.shown
	if !with.add(r.Images) {
		return tool.Failure(fmt.Sprintf("Error: this conversation has %d images of %d KiB, and no room for more: "+
			"go on with these", l.shown.count, l.shown.bytes>>10))
	}
	l.shown = with
	return r
}
