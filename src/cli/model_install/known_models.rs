//! Models that can be installed by name.
//!
//! Each file is pinned by the commit of its repository and by its digest.

/// A model that aish knows by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    /// Its name in aish.
    pub name: &'static str,
    /// Repository on Hugging Face.
    pub repository: &'static str,
    /// Commit of the repository.
    pub revision: &'static str,
    /// The file in the repository.
    pub file: &'static str,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: &'static str,
    /// Licence of the model.
    pub license: &'static str,
    /// Context window that aish uses, in tokens.
    pub context_window: u32,
    /// Purpose of the model.
    pub purpose: &'static str,
}

/// The models, smallest first.
pub const KNOWN_MODELS: &[KnownModel] = &[
    KnownModel {
        name: "qwen3-0.6b",
        repository: "Qwen/Qwen3-0.6B-GGUF",
        revision: "23749fefcc72300e3a2ad315e1317431b06b590a",
        file: "Qwen3-0.6B-Q8_0.gguf",
        size: 639_446_688,
        sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        license: "Apache-2.0",
        context_window: 16_384,
        purpose: "simple questions; fast on any machine",
    },
    KnownModel {
        name: "smollm2-1.7b",
        repository: "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
        revision: "2d4a76a30b4af41ecd395c35725ac11688d4cfe4",
        file: "smollm2-1.7b-instruct-q4_k_m.gguf",
        size: 1_055_609_536,
        sha256: "decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
        license: "Apache-2.0",
        context_window: 8192,
        purpose: "short answers in English, without reasoning",
    },
    KnownModel {
        name: "qwen3-1.7b",
        repository: "Qwen/Qwen3-1.7B-GGUF",
        revision: "90862c4b9d2787eaed51d12237eafdfe7c5f6077",
        file: "Qwen3-1.7B-Q8_0.gguf",
        size: 1_834_426_016,
        sha256: "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
        license: "Apache-2.0",
        context_window: 16_384,
        purpose: "questions and simple commands, with reasoning",
    },
    KnownModel {
        name: "smollm3-3b",
        repository: "ggml-org/SmolLM3-3B-GGUF",
        revision: "4965cb60b150737b68a0408c36aeefb65078f894",
        file: "SmolLM3-Q4_K_M.gguf",
        size: 1_915_305_312,
        sha256: "8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e",
        license: "Apache-2.0",
        context_window: 16_384,
        purpose: "questions and commands in six European languages",
    },
    KnownModel {
        name: "qwen3-4b",
        repository: "Qwen/Qwen3-4B-GGUF",
        revision: "bc640142c66e1fdd12af0bd68f40445458f3869b",
        file: "Qwen3-4B-Q4_K_M.gguf",
        size: 2_497_280_256,
        sha256: "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        license: "Apache-2.0",
        context_window: 16_384,
        purpose: "the best of these, and the slowest; needs about 6 GB of memory",
    },
];

/// Returns the model of this name.
pub fn known_model(name: &str) -> Option<&'static KnownModel> {
    KNOWN_MODELS.iter().find(|model| model.name == name)
}
