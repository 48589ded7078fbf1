// kstatus tells whether tools that wait for an object would take it for ready: it reads a JSON list of Kubernetes objects from standard
// input and prints, for each, one line with the verdict of sigs.k8s.io/cli-utils, the library that Flux and `kpt live` use.
// It must not talk to a cluster.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run() error {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		return fmt.Errorf("reading a JSON list of objects: %w", err)
	}
	for index, object := range objects {
		decoded := &unstructured.Unstructured{}
		if err := decoded.UnmarshalJSON(object); err != nil {
			return fmt.Errorf("reading object %d: %w", index, err)
		}
		result, err := status.Compute(decoded)
		if err != nil {
			return fmt.Errorf("computing the status of object %d: %w", index, err)
		}
		fmt.Println(result.Status)
	}
	return nil
}
