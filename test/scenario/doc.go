// Package scenario tests the real qq against a real Ollama server, through the
// command line, with processes that are really processes.
//
// The qq is that of $QQ_BIN, or is built once as the Makefile builds it. The
// server is that of $QQ_OLLAMA (see package ollamatest, also for when a test
// is skipped and when it fails); one of each engine serves all tests of a run.
// What the model says is written into the prompts: see package tinymodel.
//
// Each test has a world of its own: folders, settings, and a name of its own
// for the program, by which every process of that test is found afterwards.
// None may be left.
package scenario
