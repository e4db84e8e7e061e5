// Values of fields that a request leaves out: what rows of the table of fields have as their
// default (FIELD(...).Default).
#pragma once

#include "core/pipeline/spec/fields.h"

namespace latentd::pipeline {

// The neutral value; no crop, all steps.
void FillNeutral(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillSize(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillWidth(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillHeight(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillSteps(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillGuidance(const Field& field, PictureSpec& spec, const DefaultSources& from);
// A model's eta, which is for its own scheduler.
void FillEta(const Field& field, PictureSpec& spec, const DefaultSources& from);
// An effort's, as the next; absent without one.
void FillGuidanceStop(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillFeatureCache(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillDenoisingEnd(const Field& field, PictureSpec& spec, const DefaultSources& from);
void FillStrength(const Field& field, PictureSpec& spec, const DefaultSources& from);

}  // namespace latentd::pipeline
