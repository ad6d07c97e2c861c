package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// serve reads one JSON question a line and writes one JSON answer a line. In a dialog, who asks waits for the answer.
func serve[Q, A any](respond func(*Q) (*A, error), dialog func(*Q) bool) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<22)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var q Q
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fail(fmt.Errorf("failed to read a question: %w", err))
		}
		a, err := respond(&q)
		if err != nil {
			fail(err)
		}
		if err := encoder.Encode(a); err != nil {
			fail(err)
		}
		if dialog(&q) {
			if err := out.Flush(); err != nil {
				fail(err)
			}
		}
	}
	if err := errors.Join(in.Err(), out.Flush()); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}
