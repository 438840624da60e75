package main

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unknownFields lists, as path and bytes, what the message holds beyond the fields that Temporal knows.
func unknownFields(m proto.Message) []string {
	var found []string
	err := protorange.Range(m.ProtoReflect(), func(values protopath.Values) error {
		last := values.Index(-1)
		message, ok := last.Value.Interface().(protoreflect.Message)
		if ok && len(message.GetUnknown()) > 0 {
			found = append(found, fmt.Sprintf("%v: %x", values.Path[1:], []byte(message.GetUnknown())))
		}
		return nil
	})
	if err != nil {
		found = append(found, err.Error())
	}
	return found
}

func addUnknown(m proto.Message, text string) error {
	bytes, err := hex.DecodeString(text)
	if err == nil && len(bytes) > 0 {
		m.ProtoReflect().SetUnknown(bytes)
	}
	return err
}
