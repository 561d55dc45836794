package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/yaml"
)

// Definition is a custom resource as the API server serves it.
type Definition struct {
	structural *structuralschema.Structural
	create     rest.RESTCreateStrategy
	status     rest.RESTUpdateStrategy
	kind       schema.GroupVersionKind
}

// Load parses a CustomResourceDefinition and checks it as the API server does: its
// schema, and the cost of its rules.
func Load(path string) (*Definition, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var manifest apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &manifest); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&manifest)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&manifest.Spec)
	manifest.Status.StoredVersions = []string{manifest.Spec.Versions[0].Name}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&manifest, &internal, nil); err != nil {
		return nil, err
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), &internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return serve(&manifest, &internal)
}

// serve prepares the first version.
func serve(manifest *apiextensionsv1.CustomResourceDefinition, internal *apiextensions.CustomResourceDefinition) (*Definition, error) {
	version := manifest.Spec.Versions[0]
	kind := schema.GroupVersionKind{Group: manifest.Spec.Group, Version: version.Name, Kind: manifest.Spec.Names.Kind}
	validations, err := apiextensions.GetSchemaForVersion(internal, version.Name)
	if err != nil {
		return nil, err
	}
	root := validations.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(root)
	if err != nil {
		return nil, err
	}
	objects, _, err := validation.NewSchemaValidator(root)
	if err != nil {
		return nil, err
	}
	statusSchema := root.Properties["status"]
	statuses, _, err := validation.NewSchemaValidator(&statusSchema)
	if err != nil {
		return nil, err
	}
	strategy := customresource.NewStrategy(typer{}, true, kind, objects, statuses, structural,
		&apiextensions.CustomResourceSubresourceStatus{}, nil, nil)
	return &Definition{structural: structural, create: strategy, status: customresource.NewStatusStrategy(strategy), kind: kind}, nil
}

// Create does what the API server does with a posted object: prune, fill in defaults,
// validate. It returns the object to store.
func (d *Definition) Create(data []byte) (*unstructured.Unstructured, field.ErrorList, error) {
	object, err := d.decode(data)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	d.create.PrepareForCreate(ctx, object)
	return object, d.create.Validate(ctx, object), nil
}

// UpdateStatus does what the API server does when an object is put as the status of
// another.
func (d *Definition) UpdateStatus(data []byte, old *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList, error) {
	object, err := d.decode(data)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	d.status.PrepareForUpdate(ctx, object, old)
	return object, d.status.ValidateUpdate(ctx, object, old), nil
}

func (d *Definition) decode(data []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	if object.GroupVersionKind() != d.kind {
		return nil, fmt.Errorf("%s in place of %s", object.GroupVersionKind(), d.kind)
	}
	pruning.Prune(object.Object, d.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, d.structural)
	defaulting.Default(object.Object, d.structural)
	return object, nil
}

// Into decodes a stored object into a Go type, as typed clients do.
func Into(object *unstructured.Unstructured, out any) error {
	data, err := json.Marshal(object.Object)
	return errors.Join(err, json.Unmarshal(data, out))
}

// typer knows unstructured objects only.
type typer struct{}

func (typer) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{obj.GetObjectKind().GroupVersionKind()}, false, nil
}

func (typer) Recognizes(schema.GroupVersionKind) bool { return true }
