package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// object is one API object of a file, not yet decoded.
type object struct {
	// where names file, document and item.
	where string
	place place
	kind  schema.GroupVersionKind
	// name and namespace are empty if absent.
	name, namespace string
	data            []byte
}

// place is where an object stands: in which document of the file, and below which path of that, such as items[3].
type place struct {
	document int
	path     string
}

// header has the fields that are read first of every object.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	// Items are a list's, possibly null; nil for any other object.
	Items json.RawMessage `json:"items"`
	// TargetSpecs are the items of what setpoint specs list writes, which has no kind.
	TargetSpecs json.RawMessage `json:"targetSpecs"`
	// Message and Reason are those of a Status, the API server's answer to a failed call.
	Message string `json:"message"`
	Reason  string `json:"reason"`
}

// readObjects reads the objects of a file, those of lists one by one, in their order. An item
// without a kind gets that of its list.
func readObjects(name string, r io.Reader) ([]object, error) {
	documents, err := readDocuments(name, r)
	if err != nil {
		return nil, err
	}
	var out []object
	var problems problems
	for _, document := range documents {
		objects, err := expand(document)
		problems.add(document.where, err)
		out = append(out, objects...)
	}
	return out, problems.err()
}

// expand returns the object of a document or the items of its list.
func expand(document document) ([]object, error) {
	head, err := readHeader(document.data)
	if err != nil {
		return nil, err
	}
	list, key := head.Items, "items"
	if list == nil && head.Kind == "" && head.APIVersion == "" {
		list, key = head.TargetSpecs, "targetSpecs"
	}
	if list == nil {
		return []object{head.object(document.where, place{document: document.index}, document.data)}, nil
	}
	var items []json.RawMessage
	if err := objectjson.Unmarshal(list, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	var out []object
	var problems problems
	for i, data := range items {
		where := fmt.Sprintf("%s[%d]", key, i)
		item, err := readHeader(data)
		if err != nil {
			problems.add(where, err)
			continue
		}
		if item.Kind == "" && item.APIVersion == "" && head.Kind != "List" && key == "items" {
			item.APIVersion, item.Kind = head.APIVersion, strings.TrimSuffix(head.Kind, "List")
		}
		out = append(out, item.object(document.where+": "+where, place{document.index, where}, data))
	}
	return out, problems.err()
}

func readHeader(data []byte) (*header, error) {
	if len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("expected a Kubernetes object, found %s", excerpt(data))
	}
	head := &header{}
	if err := objectjson.Unmarshal(data, head); err != nil {
		return nil, err
	}
	if head.Kind == "Status" && head.APIVersion == "v1" {
		return nil, fmt.Errorf("is the API server's answer to a call that failed: %s (%s)", head.Message, head.Reason)
	}
	return head, nil
}

// excerpt returns the beginning of data that is not an object, such as an error message
// redirected into the file.
func excerpt(data []byte) string {
	const most = 80
	if len(data) > most {
		return strings.ToValidUTF8(string(data[:most]), "") + "…"
	}
	return string(data)
}

func (h *header) object(where string, at place, data []byte) object {
	return object{
		where:     where,
		place:     at,
		kind:      schema.FromAPIVersionAndKind(h.APIVersion, h.Kind),
		name:      h.Metadata.Name,
		namespace: h.Metadata.Namespace,
		data:      data,
	}
}

// describe names kind and version for messages: "Service (v1)". It quotes the beginning of an
// object without both.
func (o object) describe() string {
	switch version := o.kind.GroupVersion().String(); {
	case o.kind.Kind == "" && version == "":
		return "an object without apiVersion and kind: " + excerpt(o.data)
	case o.kind.Kind == "":
		return fmt.Sprintf("an object of %s without kind", version)
	case version == "":
		return o.kind.Kind + " without apiVersion"
	default:
		return fmt.Sprintf("%s (%s)", o.kind.Kind, version)
	}
}

// maxProblems bounds the listed problems of one file.
const maxProblems = 20

// problems collects errors with their places.
type problems struct {
	listed  []error
	further int
}

// add adds every line of err; nil is fine.
func (p *problems) add(where string, err error) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		if len(p.listed) == maxProblems {
			p.further++
			continue
		}
		p.listed = append(p.listed, fmt.Errorf("%s: %s", where, strings.TrimSuffix(line, "\n")))
	}
}

// err joins the problems, nil without any.
func (p *problems) err() error {
	if p.further > 0 {
		return errors.Join(append(p.listed, fmt.Errorf("and %d more", p.further))...)
	}
	return errors.Join(p.listed...)
}
