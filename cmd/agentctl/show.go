package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// emit prints a message as one line of JSON: proto field names, zero values written out. What steers a terminal is
// escaped: JSON itself leaves the control characters above ASCII as they are.
func (a *app) emit(m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	var line, escaped bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson varies its spaces on purpose
		return err
	}
	for _, r := range line.String() {
		if r >= 0x7f && r <= 0x9f {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	_, err = fmt.Fprintln(a.out, escaped.String())
	return err
}

// emitItem prints an item of a stream as JSON, but for heartbeats.
func (a *app) emitItem(it item) error {
	if it.GetTask() == nil && it.GetEntry() == nil && it.GetDelta() == nil && it.GetOutcome() == nil && it.GetIdle() == nil {
		return nil
	}
	return a.emit(it.(proto.Message))
}
