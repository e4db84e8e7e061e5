"""The networks of the demo checkpoint, as the config.json of diffusers and transformers describe them."""

import transformers

import vocabulary

TRAINING_STEPS = 1000

VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (32, 64, 64, 64),
    "layers_per_block": 1,
    "latent_channels": 4,
    "norm_num_groups": 32,
    "sample_size": 256,
    "force_upcast": True,
}
UNET = {
    "sample_size": 32,
    "layers_per_block": 1,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 32,
}
# Six time ids for the base (sizes and crop), five for the refiner (sizes, crop and score), and the pooled text of 96.
BASE_UNET = {
    **UNET,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "block_out_channels": (64, 96, 128),
    "transformer_layers_per_block": (1, 1, 2),
    "attention_head_dim": (2, 3, 4),
    "cross_attention_dim": 64 + 96,
    "projection_class_embeddings_input_dim": 6 * 32 + 96,
}
REFINER_UNET = {
    **UNET,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "block_out_channels": (64, 64, 96, 96),
    "transformer_layers_per_block": 1,
    "attention_head_dim": (2, 2, 3, 3),
    "cross_attention_dim": 96,
    "projection_class_embeddings_input_dim": 5 * 32 + 96,
}
NOISE_SCHEDULER = {
    "num_train_timesteps": TRAINING_STEPS,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "timestep_spacing": "leading",
    "steps_offset": 1,
}
# Stable Video Diffusion. Norms have 32 groups there, so that channels come in multiples of it.
VIDEO_VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "block_out_channels": (32, 32, 32, 64),
    "layers_per_block": 1,
    "latent_channels": 4,
    "sample_size": 128,
    "force_upcast": True,
}
IMAGE_FEATURES = 32
# Three time ids: frames per second less 1, motion bucket, and noise on the image.
VIDEO_UNET = {
    "sample_size": 16,
    "num_frames": 8,
    "down_block_types": ("DownBlockSpatioTemporal", "CrossAttnDownBlockSpatioTemporal"),
    "up_block_types": ("CrossAttnUpBlockSpatioTemporal", "UpBlockSpatioTemporal"),
    "block_out_channels": (64, 64),
    "layers_per_block": 1,
    "num_attention_heads": (2, 2),
    "cross_attention_dim": IMAGE_FEATURES,
    "addition_time_embed_dim": 32,
    "projection_class_embeddings_input_dim": 3 * 32,
}
IMAGE_ENCODER = {
    "hidden_size": 32,
    "intermediate_size": 128,
    "projection_dim": IMAGE_FEATURES,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "gelu",
}
VIDEO_NOISE_SCHEDULER = {
    "num_train_timesteps": TRAINING_STEPS,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "v_prediction",
    "interpolation_type": "linear",
    "use_karras_sigmas": True,
    "sigma_min": 0.002,
    "sigma_max": 700.0,
    "timestep_spacing": "leading",
    "timestep_type": "continuous",
    "steps_offset": 1,
}


def text_config(hidden_size, activation, pad):
    ids, _ = vocabulary.build()
    return transformers.CLIPTextConfig(
        vocab_size=len(ids),
        hidden_size=hidden_size,
        intermediate_size=4 * hidden_size,
        projection_dim=hidden_size,
        num_hidden_layers=3,
        num_attention_heads=hidden_size // 32,
        max_position_embeddings=vocabulary.LENGTH,
        hidden_act=activation,
        bos_token_id=ids[vocabulary.BEGIN],
        eos_token_id=ids[vocabulary.END],
        pad_token_id=ids[pad],
    )
