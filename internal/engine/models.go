package engine

import "qq/internal/models"

// Names of models that are no model of Ollama's.
const (
	Auto    = models.Auto
	Extract = models.Extract
)

// Model is what a process needs in order to talk to its model.
type Model = models.Model
