package task

import "github.com/google/uuid"

// NewID returns a new id for a process, an execution, a batch or a question. Ids are
// unique and sort by time.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}

// ShortID returns the form of an id that people read: its last 8 characters, because ids
// of the same time begin alike.
func ShortID(id string) string { return id[max(0, len(id)-8):] }
