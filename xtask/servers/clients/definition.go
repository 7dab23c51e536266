package main

import (
	"context"
	"errors"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// definition installs a custom resource with the generated client, which sends protobuf, and writes objects of it.
func definition(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	extensions, err := extensionsclient.NewForConfig(config)
	if err != nil {
		return err
	}
	definitions := extensions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, widgets(), metav1.CreateOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, "the definition is established", func() bool {
		found, err := definitions.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == apiextensions.Established && condition.Status == apiextensions.ConditionTrue {
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}

	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	widget := func(size any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "one"},
			"spec": map[string]any{"size": size},
		}}
	}
	if _, err := resource.Create(ctx, widget(int64(11)), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a value beyond the maximum: %v", err)
	}
	created, err := resource.Create(ctx, widget(int64(3)), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if mode, _, _ := unstructured.NestedString(created.Object, "spec", "mode"); mode != "slow" {
		return errors.New("the default of the schema is missing")
	}
	_ = unstructured.SetNestedField(created.Object, int64(7), "status", "seen")
	updated, err := resource.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if seen, _, _ := unstructured.NestedInt64(updated.Object, "status", "seen"); seen != 7 {
		return errors.New("the status was not written")
	}

	stored, err := definitions.Get(ctx, "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		return err
	}
	stored.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["size"] = apiextensions.JSONSchemaProps{Type: "integer"}
	if _, err := definitions.Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, "the new schema holds", func() bool {
		another := widget(int64(11))
		another.SetName("two")
		_, err := resource.Create(ctx, another, metav1.CreateOptions{})
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := definitions.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the definition is deleted", func() bool {
		_, err := definitions.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func widgets() *apiextensions.CustomResourceDefinition {
	maximum, preserve := 10.0, true
	spec := apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"size": {Type: "integer", Maximum: &maximum},
		"mode": {Type: "string", Default: &apiextensions.JSON{Raw: []byte(`"slow"`)}, Enum: []apiextensions.JSON{{Raw: []byte(`"slow"`)}, {Raw: []byte(`"fast"`)}}},
		"tags": {Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
		"more": {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
	}}
	status := apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
					Type:       "object",
					Properties: map[string]apiextensions.JSONSchemaProps{"spec": spec, "status": status},
				}},
			}},
		},
	}
}
