package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamldocument "github.com/setpoint-dev/setpoint/internal/document"
)

// MaxFileBytes bounds the size of a file. kubectl's dump of ten thousand pods is below 150 MB.
const MaxFileBytes = 256 << 20

// document is one document of a file, as JSON.
type document struct {
	// where names the file, and the document if there are several.
	where string
	// index is its place in the file.
	index int
	data  []byte
}

// readDocuments reads the documents of a YAML or JSON file. It skips empty documents. A JSON
// file may have several values in sequence. Errors name the file and, if known, document and
// line.
func readDocuments(name string, r io.Reader) ([]document, error) {
	content, err := readBounded(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var documents []document
	if first := bytes.TrimSpace(content); len(first) > 0 && first[0] == '{' {
		documents, err = jsonDocuments(name, content)
		// What begins like JSON, and whose first value is none, may be YAML written in one line.
		if one := json.NewDecoder(bytes.NewReader(content)); err != nil && len(content) <= yamldocument.MaxBytes && one.Decode(new(json.RawMessage)) != nil {
			if written, refused := yamlDocuments(name, content); refused == nil {
				documents, err = written, nil
			}
		}
	} else {
		documents, err = yamlDocuments(name, content)
	}
	switch {
	case err != nil && bytes.Contains(content, []byte("{{")):
		return nil, fmt.Errorf("%w; is it a template? It must be rendered first", err)
	case err != nil:
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s: is empty, expected a Kubernetes object", name)
	}
	return documents, nil
}

// readBounded reads r to its end, at most MaxFileBytes.
func readBounded(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxFileBytes)
	}
	// Some shells write UTF-16 when they redirect output to a file.
	if bytes.HasPrefix(content, []byte{0xff, 0xfe}) || bytes.HasPrefix(content, []byte{0xfe, 0xff}) {
		return nil, errors.New("is encoded as UTF-16, expected UTF-8")
	}
	return bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), yamldocument.UTF8(content)
}

// yamlDocuments splits content at its "---" lines. Repeated keys in an object are errors.
func yamlDocuments(name string, content []byte) ([]document, error) {
	raw, err := yamldocument.Manifests(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []document
	for i, part := range raw {
		where := documentName(name, i, len(raw))
		data, err := yamldocument.ManifestIn(content, part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if string(data) != "null" {
			out = append(out, document{where: where, index: i, data: data})
		}
	}
	return out, nil
}

// jsonDocuments reads the JSON values of content.
func jsonDocuments(name string, content []byte) ([]document, error) {
	var raw []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var part json.RawMessage
		err := decoder.Decode(&part)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", documentName(name, len(raw), len(raw)+1), jsonError(content, err))
		}
		raw = append(raw, part)
	}
	var out []document
	for i, part := range raw {
		out = append(out, document{where: documentName(name, i, len(raw)), index: i, data: part})
	}
	return out, nil
}

// jsonError adds to err the line of content where it occurred.
func jsonError(content []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the JSON ends too early, at line %d", lineAt(content, len(content)))
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", lineAt(content, int(syntax.Offset)), err)
	default:
		return err
	}
}

// lineAt returns the line, from 1, of the byte at offset.
func lineAt(content []byte, offset int) int {
	return 1 + bytes.Count(content[:min(offset, len(content))], []byte("\n"))
}

// documentName names document i of n of a file.
func documentName(name string, i, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s: document %d", name, i+1)
}
