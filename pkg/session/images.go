package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/regular"
)

// recall reads the images of messages again: a transcript has only their paths and checksums. An image that is not
// what it was is taken out of its message, which says so instead. It returns what a person is told, a line each.
func recall(messages []llm.Message) (lost []string) {
	for i := range messages {
		m := &messages[i]
		var still []picture.Image
		for _, image := range m.Images {
			again, why := reread(image)
			if why == "" {
				still = append(still, again)
				continue
			}
			m.Content += fmt.Sprintf("\n[the image %s was here, and %s]", image.Name, why)
			lost = append(lost, fmt.Sprintf("the image %s %s: the model does not see it again", image.Name, why))
		}
		m.Images = still
	}
	return lost
}

// reread returns image with its data, or why there is none.
func reread(image picture.Image) (again picture.Image, why string) {
	if !filepath.IsAbs(image.Name) {
		return image, "came through a pipe"
	}
	f, info, err := regular.Open(image.Name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return image, "is gone"
	}
	if err != nil {
		return image, "cannot be read"
	}
	defer f.Close()
	again, err = picture.Read(regular.Reader(f, info), image.Name)
	if err != nil || again.Sum != image.Sum {
		return image, "has changed"
	}
	return again, ""
}
