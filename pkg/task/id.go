package task

import "github.com/google/uuid"

// NewID returns the id of a process, an execution, a batch or a question: unique
// without asking anybody, and ordered by time.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}

// ShortID is how an execution or a batch is named to people: by the last 8
// characters, for the first ones of a time-ordered id are the same for neighbours.
func ShortID(id string) string { return id[max(0, len(id)-8):] }
